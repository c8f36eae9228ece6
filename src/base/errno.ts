/** Returns the error code of a failed system call, such as `ENOENT`. `undefined` for other errors. */
export function errnoOf(error: unknown): string | undefined {
  const code = error instanceof Error ? (error as NodeJS.ErrnoException).code : undefined;
  return typeof code === "string" ? code : undefined;
}
