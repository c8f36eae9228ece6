import { visible } from "../../base/visible.ts";

/**
 * Rows under headings, in columns as wide as their widest cell, three spaces apart. Ends with a line break.
 *
 * @param width the terminal's columns, to which lines are cut. @default no limit
 */
export function table(headings: readonly string[], rows: readonly (readonly string[])[], width = Infinity): string {
  const lines = [headings, ...rows.map((row) => row.map(oneLine))];
  const widths = headings.map((_, column) => Math.max(...lines.map((line) => line[column]?.length ?? 0)));
  const rendered = lines.map((line) => line.map((cell, column) => cell.padEnd(widths[column] ?? 0)).join("   "));
  return rendered.map((line) => `${clip(line.trimEnd(), width)}\n`).join("");
}

/** Cuts a line that does not fit, so that the terminal does not wrap it. */
export function clip(line: string, width: number): string {
  return line.length <= width ? line : `${line.slice(0, Math.max(0, width - 1))}…`;
}

function oneLine(text: string): string {
  return visible(text.replace(/\s+/g, " ").trim());
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
