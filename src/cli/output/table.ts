/** Rows under headings, in columns as wide as their widest cell, three spaces apart. Ends with a line end. */
export function table(headings: readonly string[], rows: readonly (readonly string[])[]): string {
  const lines = [headings, ...rows.map((row) => row.map(oneLine))];
  const widths = headings.map((_, column) => Math.max(...lines.map((line) => line[column]?.length ?? 0)));
  return lines
    .map(
      (line) =>
        `${line
          .map((cell, column) => cell.padEnd(widths[column] ?? 0))
          .join("   ")
          .trimEnd()}\n`,
    )
    .join("");
}

function oneLine(text: string): string {
  return text.replace(/\s+/g, " ").trim();
}
