import type { Sandbox } from "../../api/kinds/sandbox.ts";
import { StatusWriter } from "../../kube/status-writer.ts";
import { Attempts } from "../common/attempts.ts";
import { Wishes, type Controller, type ControllerParts } from "../common/controller-parts.ts";
import { SlowStart } from "../common/slow-start.ts";
import { reconcileSandbox, sandboxWatches } from "./controller.ts";
import type { SandboxDependencies } from "./dependencies.ts";
import { NewPods } from "./new-pods.ts";

/** Makes Sandboxes what their spec says. */
export function sandboxController(parts: ControllerParts): Controller {
  const { informers, clock, random } = parts;
  const wishes = new Wishes();
  const dependencies: SandboxDependencies = {
    ...parts,
    statuses: new StatusWriter<Sandbox>(informers.sandboxes.resource),
    starts: new Attempts({ clock, random }),
    adoptions: new Attempts({ clock, random }),
    swaps: new Attempts({ clock, random }),
    loads: new Attempts({ clock, random }),
    newPods: new NewPods({ pods: informers.pods, clock, onLost: wishes.enqueue }),
    slowStart: new SlowStart(clock),
    enqueue: wishes.enqueue,
  };
  informers.pods.store.subscribe((change) => {
    if (change.type !== "deleted") return;
    dependencies.starts.forget(change.object.metadata.uid);
    dependencies.loads.forget(change.object.metadata.uid);
  });
  return {
    name: "sandbox",
    watches: sandboxWatches(dependencies),
    reconcile: (key) => reconcileSandbox(key, dependencies),
    wishes,
    close: () => {
      dependencies.starts.close();
      dependencies.adoptions.close();
      dependencies.swaps.close();
      dependencies.loads.close();
      dependencies.newPods.close();
    },
  };
}
