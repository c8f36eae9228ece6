import { ensurePythonImage } from "../../src/local/images/python-image.ts";

/** The root file system of the tests' sandboxes. The global setup creates it once. */
export async function pythonRootPath(): Promise<string> {
  const { rootPath } = await ensurePythonImage();
  return rootPath;
}
