import { apiextensions } from "@pulumi/kubernetes";

/** A hundred objects that mean nothing to anybody. */
for (let number = 0; number < 100; number++) {
  new apiextensions.CustomResource(`map-${number}`, {
    ...{ apiVersion: "v1", kind: "ConfigMap", metadata: { name: `map-${number}`, namespace: "default" } },
    data: { number: String(number) },
  });
}
