import { expect, it } from "vitest";
import { knownValue } from "../known-value.ts";
import { driverTrust } from "./eks.ts";

it("lets the driver's own service account alone take its role by IRSA", async () => {
  const oidcProviderArn = "arn:aws:iam::1:oidc-provider/oidc.eks.eu-west-1.amazonaws.com/id/A";
  const trust = await knownValue(driverTrust({ clusterName: "prod", identity: "irsa", oidcProviderArn }));
  expect(JSON.parse(trust ?? "")).toMatchObject({
    Statement: [
      {
        ...{ Action: "sts:AssumeRoleWithWebIdentity", Principal: { Federated: oidcProviderArn } },
        Condition: {
          StringEquals: {
            "oidc.eks.eu-west-1.amazonaws.com/id/A:aud": "sts.amazonaws.com",
            "oidc.eks.eu-west-1.amazonaws.com/id/A:sub": "system:serviceaccount:kube-system:ebs-csi-controller-sa",
          },
        },
      },
    ],
  });
});
