const [, share = 0, shares = 0] = (/^([1-9])\/([1-9])$/.exec(process.env["RAMET_TEST_SHARE"] ?? "1/1") ?? []).map(
  Number,
);

/** The files of the share that `RAMET_TEST_SHARE` names: `2/3` is the second third. @default all */
export function shareOf(files: readonly string[]): string[] {
  if (share < 1 || share > shares) throw new TypeError("RAMET_TEST_SHARE is not a share such as 2/3");
  return files.toSorted().filter((_, index) => index % shares === share - 1);
}
