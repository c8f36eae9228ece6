/**
 * Throws an error with one sentence if Node is older than `required`, such as `22.19.0`.
 *
 * scripts/build.mjs copies the text of this function to the start of each bundle that programs import. It therefore
 * uses nothing from outside, and only syntax that old versions of Node can parse.
 */
export function requireNode(required, version) {
  const [needed, actual] = [required, version].map((text) => text.split(".").map(Number));
  if (actual[0] > needed[0] || (actual[0] === needed[0] && actual[1] >= needed[1])) return;
  const error = new Error("ramet needs Node.js " + needed[0] + "." + needed[1] + " or newer; this is " + version);
  // Node prints the stack of an error. Pulumi prints the message alone if the error has this mark.
  error.stack = error.message;
  throw Object.defineProperty(error, "__pulumiRunError", { value: true });
}
