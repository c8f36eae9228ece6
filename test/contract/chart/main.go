// Reads values from stdin, and prints what Helm renders from a chart with each of them, and what it finds wrong with the chart.
package main

import (
	"encoding/json"
	"log"
	"os"

	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/common/util"
	"helm.sh/helm/v4/pkg/chart/v2/lint"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/engine"
)

type input struct {
	Chart    string           `json:"chart"`
	Releases []release        `json:"releases"`
	Lint     []map[string]any `json:"lint"`
}

type release struct {
	Namespace string         `json:"namespace"`
	Values    map[string]any `json:"values"`
}

type rendered struct {
	// By the names of the templates.
	Texts map[string]string `json:"texts"`
	Error string            `json:"error"`
}

type output struct {
	Releases []rendered `json:"releases"`
	// The messages of lint, of all severities.
	Lint []string `json:"lint"`
}

func main() {
	var given input
	if err := json.NewDecoder(os.Stdin).Decode(&given); err != nil {
		log.Fatal(err)
	}
	printed := output{Releases: []rendered{}, Lint: []string{}}
	for _, one := range given.Releases {
		texts, err := render(given.Chart, one)
		report := rendered{Texts: texts}
		if err != nil {
			report.Error = err.Error()
		}
		printed.Releases = append(printed.Releases, report)
	}
	for _, values := range given.Lint {
		for _, message := range lint.RunAll(given.Chart, values, "ramet-system").Messages {
			printed.Lint = append(printed.Lint, message.Error())
		}
	}
	if err := json.NewEncoder(os.Stdout).Encode(printed); err != nil {
		log.Fatal(err)
	}
}

// The same as `helm template`, which also validates the values.
func render(path string, given release) (map[string]string, error) {
	chart, err := loader.Load(path)
	if err != nil {
		return nil, err
	}
	options := common.ReleaseOptions{Name: "ramet", Namespace: given.Namespace, Revision: 1, IsInstall: true}
	values, err := util.ToRenderValues(chart, given.Values, options, common.DefaultCapabilities)
	if err != nil {
		return nil, err
	}
	return engine.Render(chart, values)
}
