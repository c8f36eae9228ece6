// Reads questions from stdin, and prints what the engine of Prometheus answers.
package main

import (
	"encoding/json"
	"log"
	"os"
	"time"

	"github.com/prometheus/prometheus/promql/promqltest"
)

type question struct {
	Expr string `json:"expr"`
	// Series in the notation of promtool, with a sample each minute.
	Series string `json:"series"`
	// The time of the evaluation, after the first sample.
	Minutes int `json:"minutes"`
}

type answer struct {
	Results int    `json:"results"`
	Error   string `json:"error"`
}

func main() {
	var questions []question
	if err := json.NewDecoder(os.Stdin).Decode(&questions); err != nil {
		log.Fatal(err)
	}
	answers := make([]answer, 0, len(questions))
	for _, one := range questions {
		results, err := evaluate(one)
		answers = append(answers, answer{Results: results})
		if err != nil {
			answers[len(answers)-1].Error = err.Error()
		}
	}
	if err := json.NewEncoder(os.Stdout).Encode(answers); err != nil {
		log.Fatal(err)
	}
}

// The number of results. A question without series is only parsed.
func evaluate(one question) (count int, err error) {
	loader, err := promqltest.NewLazyLoader("load 1m\n"+one.Series, promqltest.LazyLoaderOpts{})
	if err != nil {
		return 0, err
	}
	defer func() { _ = loader.Close() }()
	at := time.Unix(0, 0).Add(time.Duration(one.Minutes) * time.Minute)
	loader.WithSamplesTill(at, func(failed error) { err = failed })
	if err != nil {
		return 0, err
	}
	query, err := loader.QueryEngine().NewInstantQuery(loader.Context(), loader.Queryable(), nil, one.Expr, at)
	if err != nil {
		return 0, err
	}
	defer query.Close()
	result := query.Exec(loader.Context())
	if result.Err != nil {
		return 0, result.Err
	}
	vector, err := result.Vector()
	return len(vector), err
}
