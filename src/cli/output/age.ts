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
