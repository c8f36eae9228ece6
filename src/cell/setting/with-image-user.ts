import { RametError } from "../../base/errors.ts";
import type { CellSetting } from "./cell-setting.ts";
import { imageUser } from "./image-user.ts";

/**
 * Completes a setting with what only the image's files tell: the ids of a user that the image names. Checks that the image is for
 * this machine, because a node may have pulled another one than the controllers looked up.
 */
export async function withImageUser(setting: CellSetting): Promise<CellSetting> {
  const { config, container, image } = setting;
  const { userName, architecture } = image;
  if (architecture !== undefined && architecture !== ownArchitecture) {
    return { ...setting, problem: otherArchitecture(container.image, architecture) };
  }
  if (userName === undefined || container.userOfImage !== true) return setting;
  try {
    const user = await imageUser({ name: container.image, rootPath: config.rootPath, user: userName });
    return user === undefined ? setting : { ...setting, container: { ...container, user } };
  } catch (error) {
    return { ...setting, problem: RametError.from(error) };
  }
}

/** As in Go. */
const ownArchitecture = process.arch === "x64" ? "amd64" : process.arch;

function otherArchitecture(image: string, architecture: string): RametError {
  const why = `The image ${image} is for ${architecture}, but this node is ${ownArchitecture}`;
  return new RametError("NeedNotMet", why, {
    hint: `Add to the template the nodeSelector kubernetes.io/arch: ${architecture}, or use an image for ${ownArchitecture}`,
  });
}
