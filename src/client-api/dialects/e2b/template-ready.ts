import type { WaitFor } from "../../../api/recipe/recipe.ts";

/**
 * The condition of a ready command. Those of the SDKs' helpers for ports and files become the conditions of recipes, because few
 * images have `ss`; all others are run until they succeed.
 */
export function readyCondition(command: string): WaitFor {
  const text = command.trim();
  const port = Number(/^\[ -n "\$\(ss -Htuln sport = :(\d{1,5})\)" \]$/.exec(text)?.[1]);
  if (port >= 1 && port <= 65_535) return { port, timeoutSeconds };
  const file = /^\[ -f (?:'([^']+)'|([\w./-]+)) \]$/.exec(text);
  const path = file?.[1] ?? file?.[2];
  if (path?.startsWith("/") === true) return { file: path, timeoutSeconds };
  return { command: text, shell: "bash", timeoutSeconds };
}

/** As long as E2B waits. */
const timeoutSeconds = 600;
