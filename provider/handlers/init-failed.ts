import type { RametError } from "../../src/base/errors.ts";
import type { Values } from "./handler.ts";

/**
 * Thrown when an object is in the cluster and did not come to be what was wished: Pulumi keeps it in its state, with the reason,
 * and the next `pulumi up` goes on with it.
 */
export class InitFailed extends Error {
  override readonly name = "InitFailed";
  readonly id: string;
  readonly properties: Values;
  readonly reasons: string[];

  constructor(id: string, properties: Values, error: RametError) {
    super(error.describe(), { cause: error });
    this.id = id;
    this.properties = properties;
    this.reasons = [error.describe()];
  }
}
