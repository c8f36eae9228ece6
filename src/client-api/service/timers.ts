/** What happens to a sandbox when its time is over. */
export type OnTimeout = "kill" | "pause";

/** The timers of a running sandbox, as fields of its spec. */
export function timersFor(onTimeout: OnTimeout, at: Date): { shutdownTime: string } | { pauseTime: string } {
  const time = at.toISOString();
  return onTimeout === "pause" ? { pauseTime: time } : { shutdownTime: time };
}
