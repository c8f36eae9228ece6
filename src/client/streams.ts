import { type Answer, mostAnswerBytes, tooLarge } from "./answer.ts";

/** The server-sent events of an answer. */
export async function* eventsIn(answer: Answer): AsyncGenerator<{ event: string; data: unknown }> {
  const decoder = new TextDecoder();
  let held: string[] = [];
  let [length, last] = [0, ""];
  for await (const bytes of answer.bytes(eventSilenceMs)) {
    const text = decoder.decode(bytes, { stream: true });
    held.push(text);
    length += text.length;
    const isWhole = `${last}${text}`.includes("\n\n");
    last = text.at(-1) ?? last;
    if (!isWhole && length > mostAnswerBytes) throw tooLarge("An event", mostAnswerBytes);
    // A large event arrives in many parts, which are joined once.
    if (!isWhole) continue;
    const parts = held.join("").split("\n\n");
    held = parts.splice(-1);
    length = held[0]?.length ?? 0;
    for (const part of parts) {
      const found = /^event: (\w+)\ndata: (.*)$/s.exec(part);
      if (found !== null) yield { event: found[1] ?? "", data: JSON.parse(found[2] ?? "null") as unknown };
    }
  }
}

/** While there are no events, the server sends comments more often. */
const eventSilenceMs = 40_000;
