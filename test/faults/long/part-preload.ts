/**
 * Loaded into the parts of a cluster before their own program, with `node --import`. It reads two optional files in the
 * cluster's directory: `faults-kubeconfig` replaces the kubeconfig of the controllers, and `faults-clock` holds the
 * milliseconds by which the clock of the controllers is wrong. The monotonic clock stays right, as on a real machine. The
 * controllers elect a leader, which on one machine they otherwise do not.
 */
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";

if (process.argv.includes("controller")) {
  const kubeconfig = join(process.cwd(), "faults-kubeconfig");
  const at = process.argv.indexOf("--kubeconfig") + 1;
  if (at > 0 && existsSync(kubeconfig)) process.argv[at] = kubeconfig;
  process.argv.push("--leader-elect");

  const RealDate = Date;
  let offset = offsetNow();
  setInterval(() => {
    offset = offsetNow();
  }, 50).unref();
  const now = (): number => RealDate.now() + offset;
  globalThis.Date = new Proxy(RealDate, {
    construct: (target, args: unknown[], of) =>
      Reflect.construct(target, args.length === 0 ? [now()] : args, of) as Date,
    apply: () => new RealDate(now()).toString(),
    get: (target, key, receiver) => (key === "now" ? now : (Reflect.get(target, key, receiver) as unknown)),
  });
}

function offsetNow(): number {
  try {
    return Number(readFileSync(join(process.cwd(), "faults-clock"), "utf8"));
  } catch {
    return 0;
  }
}
