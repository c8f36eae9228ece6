import type { CellState } from "../../api/cell/cell-api.ts";
import type { PodExit, PodProcess } from "./pod-process.ts";
import type { Observation } from "./pod-status.ts";

type Ended = Observation & { kind: "ended" };

/** What a Pod's process shows; nothing while it starts. */
export function observe({ record, directory, state, exit, verdict, condemned }: PodProcess): Observation | undefined {
  const { ip, startedAt } = record;
  if (exit === undefined)
    return state === undefined ? undefined : { kind: "running", ip, startedAt, cell: state, probes: verdict };
  const end =
    state === undefined || (exit.exitCode === cannotStart && state.phase === "preparing")
      ? neverListened(exit, directory.lastError())
      : endOf(state, exit, condemned);
  return { kind: "ended", ip, startedAt, finishedAt: exit.at.toISOString(), ...end };
}

/**
 * For how much longer a swap is not told, in milliseconds. A kubelet does not see a short one either: it calls a cell unready
 * when its probe has failed three times, a second apart (src/api/cell-container.ts). And the processor is the clone's.
 */
export function untoldMilliseconds({
  state,
  exit,
  swapMilliseconds = Infinity,
}: Pick<PodProcess, "state" | "exit" | "swapMilliseconds">): number {
  if (exit !== undefined || state?.phase === "failed") return 0;
  return Math.max(0, swapPatienceMilliseconds - swapMilliseconds);
}

const swapPatienceMilliseconds = 3_000;

type End = Pick<Ended, "exitCode" | "reason" | "message">;

/** The cell's last word counts; a process that ended without one took the sandbox with it. */
function endOf(state: CellState, exit: PodExit, condemned: string | undefined): End {
  // An entrypoint that ends well when it is asked to was unhealthy all the same.
  if (condemned !== undefined)
    return { exitCode: state.exitCode || exit.exitCode || killed, reason: "Error", message: condemned };
  if (state.phase === "stopped") {
    const exitCode = state.exitCode ?? exit.exitCode ?? 0;
    return { exitCode, reason: exitCode === 0 ? "Completed" : "Error", message: state.message };
  }
  if (state.phase === "failed")
    return { exitCode: exit.exitCode ?? 70, reason: state.code ?? "Error", message: state.message };
  const how = exit.signal === undefined ? "ended" : `was killed (${exit.signal})`;
  const message = `the sandbox was lost: its cell ${how} while the sandbox was ${state.phase}`;
  return { exitCode: killed, reason: "SandboxLost", message };
}

/** With which a cell ends that cannot begin; a spare has a state before it has its setting, but has never listened. */
const cannotStart = 70;

/** 128 + SIGKILL, as a shell has it. */
const killed = 137;

function neverListened(exit: PodExit, error: { code: string; message: string } | undefined): End {
  return {
    exitCode: exit.exitCode ?? killed,
    reason: error?.code ?? "StartError",
    message: error?.message ?? "the cell ended before it listened; its log is in the node's directory of the Pod",
  };
}
