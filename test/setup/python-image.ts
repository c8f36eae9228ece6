/** The root filesystem that sandboxes of tests run on; made once, by the set-up. */
export async function pythonRootPath(): Promise<string> {
  return Promise.resolve("/tmp/rf/root");
}
