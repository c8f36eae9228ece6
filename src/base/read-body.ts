import { RametError } from "./errors.ts";

/**
 * Reads an HTTP body to its end.
 * @param what names the body in the error: `The request body`
 * @throws RametError `InvalidArgument` when the body is larger than `limitBytes`
 */
export async function readBody(body: AsyncIterable<unknown>, limitBytes: number, what: string): Promise<Buffer> {
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of body as AsyncIterable<Buffer>) {
    size += chunk.length;
    if (size > limitBytes) throw new RametError("InvalidArgument", `${what} is larger than ${limitBytes} bytes`);
    chunks.push(chunk);
  }
  return Buffer.concat(chunks);
}
