/** Bytes as a Kubernetes quantity: with the largest binary suffix that is exact. */
export function quantityOf(bytes: number): string {
  const suffixes = ["", "Ki", "Mi", "Gi", "Ti", "Pi"];
  let [value, index] = [bytes, 0];
  while (value > 0 && value % 1024 === 0 && index < suffixes.length - 1) {
    value /= 1024;
    index += 1;
  }
  return `${value}${suffixes[index] ?? ""}`;
}
