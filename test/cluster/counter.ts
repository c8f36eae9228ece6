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

/** The counter, which needs a moment before it listens, and a probe that finds out when it does. */
export const slowTemplate = {
  spec: {
    terminationGracePeriodSeconds: 1,
    containers: [
      {
        ...counterTemplate.spec.containers[0],
        command: ["python3", "-c", `import time\ntime.sleep(3)\n${counterScript}`],
        readinessProbe: { httpGet: { path: "/", port: counterPort }, periodSeconds: 1 },
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
