import { counterPort, counterScript } from "../setup/counter.ts";
import type { Cluster } from "./controllers-cluster.ts";

/** A Pod template that runs the counter. */
export const counterTemplate = {
  spec: {
    terminationGracePeriodSeconds: 1,
    containers: [
      {
        name: "main",
        image: "python",
        command: ["python3", "-c", counterScript],
        ports: [{ containerPort: counterPort }],
      },
    ],
  },
};

/** Returns the next count of a sandbox of namespace `t` as soon as it runs and responds. */
export async function count(cluster: Cluster, name: string): Promise<number> {
  for (;;) {
    const { status } = await cluster.seen.sandboxes.resource.get({ namespace: "t", name });
    if (status?.phase === "Running") {
      const answer = await fetch(`http://${status.sandboxIp ?? ""}:${counterPort}/`).catch(() => undefined);
      if (answer?.ok === true) return Number(await answer.text());
    }
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}
