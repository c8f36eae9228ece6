import { globSync, readFileSync } from "node:fs";
import { join } from "node:path";

/**
 * Name, version, license and copyright of every package that is a part of what was built: what they ask of whoever passes them on.
 * @param {string} root
 * @param {import("esbuild").BuildResult[]} built
 */
export function thirdPartyNotices(root, built) {
  const inputs = built
    .flatMap(({ metafile }) => Object.values(metafile?.outputs ?? {}))
    .flatMap(({ inputs }) => Object.entries(inputs));
  const folders = inputs
    .filter(([, { bytesInOutput }]) => bytesInOutput > 0)
    .map(([path]) => /^(.*node_modules\/(?:@[^/]+\/)?[^/]+)\//.exec(path)?.[1])
    .filter((folder) => folder !== undefined);
  const notices = [...new Set(folders)].sort().map((folder) => noticeOf(join(root, folder)));
  return `Parts of these packages are in the programs beside this file.\n\n${notices.join(`\n${"-".repeat(78)}\n\n`)}`;
}

/** @param {string} folder */
function noticeOf(folder) {
  const { name, version, license } = JSON.parse(readFileSync(join(folder, "package.json"), "utf8"));
  const files = globSync("{LICENSE,LICENCE,NOTICE,COPYING}{,.md,.txt}", { cwd: folder }).sort();
  if (files.length === 0 && license !== "Apache-2.0") {
    throw new Error(`${name} has no license file: look what ${license} asks of who bundles it`);
  }
  const texts = files.map((file) => readFileSync(join(folder, file), "utf8").trim());
  const text =
    texts.length === 0
      ? "Its package has no notice. The text of its license is that of Ramet's own."
      : texts.join("\n\n");
  return `${name} ${version} (${license})\n\n${text}\n`;
}
