import type { StoreLocation } from "../../../src/api/store/store-address.ts";

/** What a test wants a child process to do with the store in `root`, or in `place`. */
export interface Order {
  operation: "publish" | "remove" | "sweep" | "probe" | "restore-read-only";
  root: string;
  place?: StoreLocation;
  /** How much later it is for the child, in milliseconds. */
  later?: number;
  checkpointId: string;
  files: Record<string, string>;
  stopAt?: { step: string; time: number };
  /** Uses up the store's last room at this step. */
  fillAt?: string;
}

export const namespace = "team-a";
