/** A number of bytes for people: `512B`, `4.2MiB`, `1.5GiB`. */
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
