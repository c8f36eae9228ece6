// Reads objects and a script from stdin, and prints how kstatus, Argo CD, Flux and kro report each object.
package main

import (
	"encoding/json"
	"log"
	"os"

	"github.com/google/cel-go/cel"
	lua "github.com/yuin/gopher-lua"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/cli-utils/pkg/kstatus/status"
)

type input struct {
	Objects []json.RawMessage `json:"objects"`
	Script  string            `json:"script"`
	// Expressions in CEL: of Flux, and of kro.
	Failed    string   `json:"failed"`
	Current   string   `json:"current"`
	ReadyWhen []string `json:"readyWhen"`
}

type report struct {
	Kstatus string `json:"kstatus"`
	Argo    string `json:"argo"`
	Message string `json:"message"`
	Flux    string `json:"flux"`
	Kro     bool   `json:"kro"`
}

func main() {
	var given input
	if err := json.NewDecoder(os.Stdin).Decode(&given); err != nil {
		log.Fatal(err)
	}
	reports := make([]report, 0, len(given.Objects))
	for _, text := range given.Objects {
		var object unstructured.Unstructured
		if err := object.UnmarshalJSON(text); err != nil {
			log.Fatal(err)
		}
		computed, err := status.Compute(&object)
		if err != nil {
			log.Fatal(err)
		}
		health := healthOf(object.Object, given.Script)
		snapshot := map[string]any{"snapshot": object.Object}
		ready := true
		for _, expression := range given.ReadyWhen {
			ready = ready && holds(expression, snapshot)
		}
		flux := fluxStatus(object.Object, given)
		reports = append(reports, report{computed.Status.String(), health["status"], health["message"], flux, ready})
	}
	if err := json.NewEncoder(os.Stdout).Encode(reports); err != nil {
		log.Fatal(err)
	}
}

// In the order of Flux: without a result, an object is in progress.
func fluxStatus(object map[string]any, given input) string {
	if holds("status.observedGeneration != metadata.generation", object) {
		return "InProgress"
	}
	if holds(given.Failed, object) {
		return "Failed"
	}
	if holds(given.Current, object) {
		return "Current"
	}
	return "InProgress"
}

func holds(expression string, variables map[string]any) bool {
	options := []cel.EnvOption{}
	for name := range variables {
		options = append(options, cel.Variable(name, cel.DynType))
	}
	environment, err := cel.NewEnv(options...)
	if err != nil {
		log.Fatal(err)
	}
	checked, issues := environment.Compile(expression)
	if issues.Err() != nil {
		log.Fatal(issues.Err())
	}
	program, err := environment.Program(checked)
	if err != nil {
		log.Fatal(err)
	}
	result, _, err := program.Eval(variables)
	if err != nil {
		log.Fatal(err)
	}
	return result.Value() == true
}

// Runs a health check as Argo CD does: with its library, without modules, and with the object as the global "obj".
func healthOf(object map[string]any, script string) map[string]string {
	vm := lua.NewState(lua.Options{SkipOpenLibs: true})
	defer vm.Close()
	vm.Push(vm.NewFunction(lua.OpenBase))
	vm.Call(0, 0)
	vm.SetGlobal("obj", valueOf(vm, object))
	if err := vm.DoString(script); err != nil {
		log.Fatal(err)
	}
	health := map[string]string{}
	vm.CheckTable(-1).ForEach(func(key, value lua.LValue) { health[key.String()] = value.String() })
	return health
}

func valueOf(vm *lua.LState, value any) lua.LValue {
	switch value := value.(type) {
	case map[string]any:
		table := vm.NewTable()
		for key, item := range value {
			table.RawSetString(key, valueOf(vm, item))
		}
		return table
	case []any:
		table := vm.NewTable()
		for _, item := range value {
			table.Append(valueOf(vm, item))
		}
		return table
	case string:
		return lua.LString(value)
	case bool:
		return lua.LBool(value)
	case int64:
		return lua.LNumber(value)
	case float64:
		return lua.LNumber(value)
	}
	return lua.LNil
}
