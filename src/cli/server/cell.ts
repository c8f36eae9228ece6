/** `ramet cell`: runs the cell. Its module starts when it is loaded, and ends the process. */
export async function runCell(): Promise<number> {
  await import("../../cell/main.ts");
  return new Promise(() => undefined);
}
