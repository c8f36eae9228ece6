import { output, type Input, type Output } from "@pulumi/pulumi";
import { parseInstallField, type InstallField } from "../src/install/install-options.ts";
import { refusal } from "./refusal.ts";

/** An argument of an installation, judged when it is known. @throws RunError */
export function legalField<T>(field: InstallField, value: Input<T>): Output<T> {
  return output(value).apply((known) => refusing(() => parseInstallField(field, known) as T));
}

/** @throws RunError in place of what is thrown */
export function refusing<T>(judge: () => T): T {
  try {
    return judge();
  } catch (error) {
    throw refusal(error);
  }
}
