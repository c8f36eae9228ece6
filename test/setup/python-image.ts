import { ensurePythonImage } from "../../src/local/images/python-image.ts";

/** The root filesystem that sandboxes of tests run on; made once, by the set-up. */
export async function pythonRootPath(): Promise<string> {
  const { rootPath } = await ensurePythonImage();
  return rootPath;
}
