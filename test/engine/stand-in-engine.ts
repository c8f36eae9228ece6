import { once } from "node:events";
import { join } from "node:path";
import { KubeClient } from "../../src/kube/kube-client.ts";
import { connectionFromKubeconfig } from "../../src/kube/kubeconfig.ts";
import { CloudResources } from "./cloud-resources.ts";
import { Deployment } from "./deployment.ts";
import { DynamicProviderProcess } from "./dynamic-provider-process.ts";
import { type Engine, type EngineOptions, renderSteps, type RunResult, upAfterPreview } from "./engine.ts";
import { KubernetesResources } from "./kubernetes-resources.ts";
import { serveMonitor } from "./monitor-server.ts";
import { type CheckedResource, PolicyPackProcess } from "./policy-pack-process.ts";
import { runProgram } from "./program-process.ts";
import { PluginResources } from "./plugin-resources.ts";
import type { ResourceProvider } from "./resource-provider.ts";
import { StateFile } from "./state-file.ts";
import { readYamlProgram, runYamlProgram } from "./yaml-program.ts";

/**
 * A stand-in for `pulumi preview`, `up`, `refresh` and `destroy`. The README in this directory lists what it does not prove. Each
 * call reads the state again and starts Pulumi's processes, as each call of the command line does.
 */
export class StandInEngine implements Engine {
  readonly description = "a stand-in for Pulumi's engine runs the program in Pulumi's own processes";
  readonly #options: EngineOptions;

  constructor(options: EngineOptions) {
    this.#options = options;
  }

  get statePath(): string {
    return join(this.#options.stateDirectory, `${this.#options.stack}.json`);
  }

  with(options: Partial<EngineOptions>): StandInEngine {
    return new StandInEngine({ ...this.#options, ...options });
  }

  preview(): Promise<RunResult> {
    return this.#run(true);
  }

  up(): Promise<RunResult> {
    return upAfterPreview(this, this.#options, () => this.#run(false));
  }

  async refresh(): Promise<RunResult> {
    return this.#session(false, async (deployment, { state, providerOf }) => {
      for (const resource of state.list()) {
        const provider = resource.custom ? providerOf(resource.type) : undefined;
        if (provider === undefined) continue;
        const outputs = await provider.read(resource.id, resource.outputs);
        const { urn, type, name, inputs } = resource;
        const isSame = JSON.stringify(outputs) === JSON.stringify(resource.outputs);
        const operation = outputs === undefined ? "delete" : isSame ? "same" : "update";
        deployment.steps.push({ operation, urn, type, name, inputs, changes: [] });
        if (outputs === undefined) state.remove(resource);
        else state.put({ ...resource, outputs });
      }
      return true;
    });
  }

  /** Does not run the program, like the command line. */
  destroy(): Promise<RunResult> {
    return this.#session(false, async (deployment) => {
      await deployment.deleteOthers();
      return true;
    });
  }

  #run(preview: boolean): Promise<RunResult> {
    const {
      program: directory,
      project,
      stack,
      configuration = {},
      secretKeys = [],
      typescript = false,
    } = this.#options;
    return this.#session(preview, async (deployment, { onLine, ended, construct }) => {
      const failed = new AbortController();
      ended.addEventListener("abort", () => {
        failed.abort();
      });
      const onFailure = (): void => {
        deployment.stop();
        void deployment.settled().then(() => {
          failed.abort();
        });
      };
      const monitor = await serveMonitor({ deployment, onLine, onFailure });
      const { address } = monitor;
      try {
        const yaml = await readYamlProgram(directory);
        if (yaml !== undefined) {
          const run = { deployment, project, stack, preview };
          await runYamlProgram(yaml, { ...run, construct: (call) => construct(call, address) });
          await deployment.deleteOthers();
          return true;
        }
        const { exitCode } = await runProgram({
          directory,
          project,
          stack,
          address,
          preview,
          configuration,
          secretKeys,
          typescript,
          onLine,
          environment: this.#environment,
          signal: failed.signal,
        });
        if (exitCode === 0) await deployment.deleteOthers();
        return exitCode === 0;
      } finally {
        monitor.stop();
      }
    });
  }

  async #session(
    preview: boolean,
    work: (deployment: Deployment, session: Session) => Promise<boolean>,
  ): Promise<RunResult> {
    const { program: directory, project, stack, kubeconfig, configuration = {}, passphrase } = this.#options;
    const lines: string[] = [];
    const onLine = (line: string): void => {
      lines.push(line);
      this.#options.onLine?.(line, () => void dynamic.kill());
    };
    const state = new StateFile(this.statePath, passphrase);
    const client = new KubeClient(await connectionFromKubeconfig({ path: kubeconfig }));
    const dynamic = new DynamicProviderProcess({
      directory,
      project,
      configuration,
      onLine,
      environment: this.#environment,
    });
    const { policyPack } = this.#options;
    const pack = policyPack === undefined ? undefined : await PolicyPackProcess.start(policyPack, onLine);
    const kubernetes = new KubernetesResources(client);
    const plugin = new PluginResources({ project, stack, onLine, environment: this.#environment });
    const settings = state.list().find(({ type }) => type === providerType);
    if (settings !== undefined) await plugin.settings.read(settings.id, settings.outputs);
    const providerOf = (type: string): ResourceProvider | undefined => {
      if (type.startsWith("pulumi-nodejs:")) return dynamic;
      if (CloudResources.supports(type)) return new CloudResources(type);
      if (type === providerType) return plugin.settings;
      if (type.startsWith("ramet:index:")) return plugin.of(type);
      return type.startsWith("kubernetes:") ? kubernetes : undefined;
    };
    let isForbidden = false;
    const analyzed = async (resource: CheckedResource): Promise<void> => {
      if (pack !== undefined && (await analyze(pack, resource, { preview, onLine }))) isForbidden = true;
    };
    const deployment = new Deployment({ stack, project, state, preview, providerOf, analyze: analyzed });
    const ended = new AbortController();
    const interrupt = (): void => {
      deployment.stop();
      kubernetes.cancel();
      // As the engine does on Ctrl-C: ask for an end, then wait for what is in progress.
      void dynamic
        .cancel()
        .then(() => deployment.settled())
        .finally(() => {
          ended.abort();
        });
    };
    const { signal } = this.#options;
    signal?.addEventListener("abort", interrupt);
    if (signal?.aborted === true) interrupt();
    try {
      const construct: Session["construct"] = (call, monitor) => plugin.construct(call, monitor);
      const worked = work(deployment, { state, providerOf, onLine, ended: ended.signal, construct }).catch(
        (error: unknown) => {
          onLine(error instanceof Error ? error.message : String(error));
          return false;
        },
      );
      const succeeded = await Promise.race([worked, interrupted(ended.signal)]);
      const { steps, outputs } = deployment;
      return {
        succeeded: succeeded && !isForbidden,
        steps,
        outputs,
        lines,
        text: [...renderSteps(steps), ...lines].join("\n"),
      };
    } finally {
      await pack?.stop();
      signal?.removeEventListener("abort", interrupt);
      await dynamic.stop();
      await plugin.stop();
      await client.close();
    }
  }

  get #environment(): NodeJS.ProcessEnv {
    return { ...process.env, KUBECONFIG: this.#options.kubeconfig };
  }
}

const providerType = "pulumi:providers:ramet";

/**
 * Reports all violations. A mandatory one fails a preview at its end, and an update immediately.
 * @returns whether the preview has to fail
 */
async function analyze(
  pack: PolicyPackProcess,
  resource: CheckedResource,
  { preview, onLine }: { preview: boolean; onLine: (line: string) => void },
): Promise<boolean> {
  const violations = await pack.analyze(resource);
  for (const { isMandatory, policy, message } of violations) {
    onLine(`${isMandatory ? "error" : "warning"}: ${resource.name}: [${policy}] ${message}`);
  }
  const isForbidden = violations.some(({ isMandatory }) => isMandatory);
  if (isForbidden && !preview) throw new Error("a mandatory policy is violated");
  return isForbidden;
}

/** Resolves to false when the work is interrupted. */
async function interrupted(signal: AbortSignal): Promise<false> {
  if (!signal.aborted) await once(signal, "abort");
  return false;
}

interface Session {
  state: StateFile;
  providerOf: (type: string) => ResourceProvider | undefined;
  onLine: (line: string) => void;
  /** Aborted when the work is interrupted. */
  ended: AbortSignal;
  /** Registers a component of a program in another language. */
  construct: PluginResources["construct"];
}
