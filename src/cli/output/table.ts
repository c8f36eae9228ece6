/** Rows under headings, in columns as wide as their widest cell, three spaces apart. Ends with a line break. */
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

/**
 * How long ago something happened, as `kubectl get` shows it: `42s`, `5m`, `3h`, `9d`.
 *
 * @param since RFC 3339
 */
export function age(since: string | undefined, now: Date): string {
  const seconds = Math.floor((now.getTime() - Date.parse(since ?? "")) / 1000);
  if (Number.isNaN(seconds)) return "<unknown>";
  if (seconds < 120) return `${Math.max(0, seconds)}s`;
  if (seconds < 7200) return `${Math.floor(seconds / 60)}m`;
  if (seconds < 172_800) return `${Math.floor(seconds / 3600)}h`;
  return `${Math.floor(seconds / 86_400)}d`;
}

/** A readable number of bytes: `512B`, `4.2MiB`, `1.5GiB`. */
export function size(bytes: number | undefined): string {
  if (bytes === undefined) return "";
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let value = bytes;
  let unit = 0;
  while (value >= 1024 && unit < units.length - 1) {
    value /= 1024;
    unit++;
  }
  return `${unit === 0 || value >= 100 ? Math.round(value) : Number(value.toFixed(1))}${units[unit] ?? ""}`;
}
