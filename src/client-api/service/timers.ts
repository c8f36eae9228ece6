/** What happens to a sandbox when its time is over. */
export type OnTimeout = "kill" | "pause" | "pauseFiles";

/** The timers of a running sandbox, as fields of its spec. */
export function timersFor(onTimeout: OnTimeout, at: Date): { shutdownTime: string } | { pauseTime: string } {
  const time = at.toISOString();
  return onTimeout === "kill" ? { shutdownTime: time } : { pauseTime: time };
}
