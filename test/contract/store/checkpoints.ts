import type { Files } from "./harness.ts";

export const ref = { namespace: "team-a", checkpointId: "python-data.1" };
export const other = { namespace: "team-a", checkpointId: "python-data.2" };
export const files: Files = {
  "checkpoint.img": "kernel state",
  "pages.img": "x".repeat(300_000),
  "pages_meta.img": "",
};
