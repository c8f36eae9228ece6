import { globSync, readFileSync } from "node:fs";
import { join } from "node:path";

/**
 * Returns the name, version, license and copyright of every bundled package, as their licenses require for redistribution.
 * @param {string} root
 * @param {import("esbuild").BuildResult[]} built
 */
export function thirdPartyNotices(root, built) {
  const inputs = built
    .flatMap(({ metafile }) => Object.values(metafile?.outputs ?? {}))
    .flatMap(({ inputs }) => Object.entries(inputs));
  const directories = inputs
    .filter(([, { bytesInOutput }]) => bytesInOutput > 0)
    .map(([path]) => /^(.*node_modules\/(?:@[^/]+\/)?[^/]+)\//.exec(path)?.[1])
    .filter((directory) => directory !== undefined);
  const notices = [...new Set(directories)].sort().map((directory) => noticeOf(join(root, directory)));
  return `The programs in this directory contain parts of the following packages.\n\n${notices.join(`\n${"-".repeat(78)}\n\n`)}`;
}

/** @param {string} directory */
function noticeOf(directory) {
  const { name, version, license, author } = JSON.parse(readFileSync(join(directory, "package.json"), "utf8"));
  const files = globSync("{LICENSE,LICENCE,NOTICE,COPYING,license}{,.md,.txt}", { cwd: directory }).sort();
  const holder = typeof author === "string" ? author : author?.name;
  const isMit = license === "MIT" && holder !== undefined;
  if (files.length === 0 && license !== "Apache-2.0" && !isMit) {
    throw new Error(`${name} has no license file: check what ${license} requires of a bundle`);
  }
  const texts = files.map((file) => readFileSync(join(directory, file), "utf8").trim());
  if (texts.length === 0) texts.push(isMit ? mitLicense(holder) : apacheLicense);
  const text = texts.join("\n\n");
  return `${name} ${version} (${license})\n\n${text}\n`;
}

const apacheLicense = "The package has no notice. Its license has the same text as Ramet's license.";

/**
 * The MIT license, for a package that names it but does not contain its text.
 * @param {string} holder
 */
function mitLicense(holder) {
  return `Copyright (c) ${holder}

Permission is hereby granted, free of charge, to any person obtaining a copy of this software and associated documentation
files (the "Software"), to deal in the Software without restriction, including without limitation the rights to use, copy,
modify, merge, publish, distribute, sublicense, and/or sell copies of the Software, and to permit persons to whom the Software
is furnished to do so, subject to the following conditions:

The above copyright notice and this permission notice shall be included in all copies or substantial portions of the Software.

THE SOFTWARE IS PROVIDED "AS IS", WITHOUT WARRANTY OF ANY KIND, EXPRESS OR IMPLIED, INCLUDING BUT NOT LIMITED TO THE WARRANTIES
OF MERCHANTABILITY, FITNESS FOR A PARTICULAR PURPOSE AND NONINFRINGEMENT. IN NO EVENT SHALL THE AUTHORS OR COPYRIGHT HOLDERS BE
LIABLE FOR ANY CLAIM, DAMAGES OR OTHER LIABILITY, WHETHER IN AN ACTION OF CONTRACT, TORT OR OTHERWISE, ARISING FROM, OUT OF OR
IN CONNECTION WITH THE SOFTWARE OR THE USE OR OTHER DEALINGS IN THE SOFTWARE.`;
}
