import type { StoreLocation } from "../../../src/api/store/store-address.ts";

/** An operation of a child process on the store in `root` or `place`. */
export interface Order {
  operation: "publish" | "remove" | "sweep" | "probe" | "restore-read-only";
  root: string;
  place?: StoreLocation;
  /** Milliseconds that the child's clock is ahead. */
  later?: number;
  checkpointId: string;
  files: Record<string, string>;
  stopAt?: { step: string; time: number };
  /** The step at which the child fills the store. */
  fillAt?: string;
}

export const namespace = "team-a";
