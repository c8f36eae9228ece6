import type { CheckpointPart, PartContents } from "../api/kinds/checkpoint.ts";
import type { Contents } from "../api/schema/metadata.ts";
import { RametError } from "../base/errors.ts";
import { type Log, silentLog } from "../base/log.ts";
import type { Backend, Probe, SandboxHolds } from "./backend.ts";
import type { SandboxRef } from "./runtime.ts";

/** A backend and the contents that it captures as one part. */
export interface PartPlan {
  backend: Backend;
  contents: PartContents;
}

/** The backends of this installation, by name. Each is probed at the start, and again while it does not work. */
export class Backends {
  readonly #byName: ReadonlyMap<string, Backend>;
  readonly #probes = new Map<string, Promise<Probe>>();

  constructor(backends: readonly Backend[], log: Log = silentLog) {
    this.#byName = new Map(backends.map((backend) => [backend.name, backend]));
    for (const backend of backends) {
      void this.#probe(backend).then(({ contents, problem }) => {
        if (problem === undefined) return;
        const message = contents.length === 0 ? "the backend does not work" : "the backend may soon stop working";
        log.warn({ backend: backend.name, error: problem.describe() }, message);
      });
    }
  }

  all(): Backend[] {
    return [...this.#byName.values()];
  }

  /** @throws RametError `BackendMissing` */
  get(name: string): Backend {
    const backend = this.#byName.get(name);
    if (backend !== undefined) return backend;
    const known = [...this.#byName.keys()].join(", ");
    const why = `no backend ${name} is installed here: the installed backends are ${known}`;
    throw new RametError("BackendMissing", why, {
      hint: `Install the backend ${name}, or use a checkpoint without it`,
    });
  }

  /** Returns the backend that imports volumes. @throws RametError `NotSupported` if no backend does */
  importer(): Backend & Required<Pick<Backend, "importVolumes">> {
    for (const backend of this.all()) if (importsVolumes(backend)) return backend;
    throw new RametError("NotSupported", "no backend of this installation imports volumes");
  }

  /** Returns the part that pauses sandboxes. @throws RametError `NotSupported` if no backend runs sandboxes */
  holds(): SandboxHolds {
    const found = this.all().flatMap(({ holds }) => holds ?? [])[0];
    if (found !== undefined) return found;
    throw new RametError("NotSupported", "no backend of this installation can pause sandboxes", {
      hint: "Use consistency crash",
    });
  }

  /**
   * The backend of each part, in the order of a restore.
   * @throws RametError `BackendMissing` for a part whose backend is not installed
   */
  forParts(parts: readonly CheckpointPart[]): { backend: Backend; part: CheckpointPart }[] {
    return inOrder(parts).map((part) => ({ backend: this.get(part.backend), part }));
  }

  /**
   * Chooses the backends that capture a sandbox, in the order of the capture: volumes first. A backend that captures all of
   * `contents` in one part is preferred.
   * @param contents memory and files; empty: only volumes
   * @param claims the claims to capture; empty: no volumes
   * @throws RametError the problem of a backend that does not work here; `BackendMissing` if none captures what is requested
   */
  async forContents(contents: Contents, { claims }: Pick<SandboxRef, "claims">): Promise<PartPlan[]> {
    const requested: PartContents[] = [claims.length > 0 ? ["volumes"] : [], contents];
    return Promise.all(
      requested
        .filter(({ length }) => length > 0)
        .map(async (one) => ({ backend: await this.#for(one), contents: one })),
    );
  }

  /** Asks one backend after the other, so that those of other contents are not probed. */
  async #for(contents: PartContents): Promise<Backend> {
    const problems: { backend: Backend; problem: RametError }[] = [];
    for (const backend of this.all()) {
      const { contents: offered, problem } = await this.#working(backend);
      if (offered.some((one) => isSame(one, contents))) return backend;
      if (problem !== undefined) problems.push({ backend, problem });
    }
    const own = problems.find(({ backend }) => capturesVolumes(backend) === contents.includes("volumes"));
    throw own?.problem ?? uncapturable(contents);
  }

  #probe(backend: Backend): Promise<Probe> {
    const probe = backend.probe().catch((thrown: unknown) => ({ contents: [], problem: RametError.from(thrown) }));
    this.#probes.set(backend.name, probe);
    return probe;
  }

  async #working(backend: Backend): Promise<Probe> {
    const before = await this.#probes.get(backend.name);
    return before === undefined || before.contents.length === 0 ? this.#probe(backend) : before;
  }
}

/** The part with files starts the sandbox, so it is the last one to be restored. */
function inOrder(parts: readonly CheckpointPart[]): CheckpointPart[] {
  const starts = ({ contents }: CheckpointPart): number => Number(contents.includes("filesystem"));
  return parts.toSorted((a, b) => starts(a) - starts(b));
}

/** Whether a backend captures volumes. One that does not work offers no contents, so these cannot tell. */
export function capturesVolumes(backend: Backend): boolean {
  return "fillClaim" in backend;
}

function importsVolumes(backend: Backend): backend is Backend & Required<Pick<Backend, "importVolumes">> {
  return backend.importVolumes !== undefined;
}

function isSame(a: readonly string[], b: readonly string[]): boolean {
  return a.length === b.length && a.every((content) => b.includes(content));
}

function uncapturable(contents: PartContents): RametError {
  return new RametError("BackendMissing", `no backend captures ${contents.join(" and ")} here`, {
    hint: "Request other persistentContents",
  });
}
