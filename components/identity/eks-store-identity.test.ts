import { expect, it } from "vitest";
import { knownValue } from "../await.ts";
import { trust } from "./eks-store-identity.ts";

it("lets a single service account assume a role with IRSA", async () => {
  const oidcProviderArn = "arn:aws:iam::1:oidc-provider/oidc.eks.eu-west-1.amazonaws.com/id/A";
  const account = { namespace: "kube-system", serviceAccount: "ebs-csi-controller-sa" };
  const text = await knownValue(trust({ identity: "irsa", oidcProviderArn }, account));
  expect(JSON.parse(text ?? "")).toMatchObject({
    Statement: [
      {
        Action: "sts:AssumeRoleWithWebIdentity",
        Principal: { Federated: oidcProviderArn },
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
