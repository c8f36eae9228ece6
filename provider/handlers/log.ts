/** Lines on the standard output of Pulumi's process for dynamic resources are shown to the user while the resource is made. */
export function sayOnStdout(line: string): void {
  process.stdout.write(`${line}\n`);
}
