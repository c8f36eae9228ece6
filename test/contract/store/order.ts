/** What a test wants a child process to do with the store in `root`. */
export interface Order {
  operation: "publish" | "remove" | "sweep" | "probe" | "restore-read-only";
  root: string;
  checkpointId: string;
  files: Record<string, string>;
  stopAt?: { step: string; time: number };
  /** Uses up the store's last room at this step. */
  fillAt?: string;
}

export const namespace = "team-a";
