// Reads a JSON list of objects from stdin, and prints the list of their statuses as kstatus computes them.
package main

import (
	"encoding/json"
	"log"
	"os"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/cli-utils/pkg/kstatus/status"
)

func main() {
	var objects []json.RawMessage
	if err := json.NewDecoder(os.Stdin).Decode(&objects); err != nil {
		log.Fatal(err)
	}
	computed := make([]string, 0, len(objects))
	for _, text := range objects {
		var object unstructured.Unstructured
		if err := object.UnmarshalJSON(text); err != nil {
			log.Fatal(err)
		}
		result, err := status.Compute(&object)
		if err != nil {
			log.Fatal(err)
		}
		computed = append(computed, result.Status.String())
	}
	if err := json.NewEncoder(os.Stdout).Encode(computed); err != nil {
		log.Fatal(err)
	}
}
