/** `ramet cell`: becomes the cell. Its module runs when it is loaded, and ends the process. */
export async function runCell(): Promise<number> {
  await import("../../cell/main.ts");
  return new Promise(() => undefined);
}
