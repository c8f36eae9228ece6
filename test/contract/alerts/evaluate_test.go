// Package alerts evaluates expressions with the engine of Prometheus.
package alerts

import (
	"encoding/json"
	"os"
	"testing"
	"time"

	"github.com/prometheus/prometheus/promql"
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

// Reads questions from a file and writes answers to another. A question without series is only parsed.
func TestQuestions(t *testing.T) {
	text, err := os.ReadFile(os.Getenv("RAMET_QUESTIONS"))
	if err != nil {
		t.Skip("The test in TypeScript has the questions")
	}
	var questions []question
	if err := json.Unmarshal(text, &questions); err != nil {
		t.Fatal(err)
	}
	engine := promqltest.NewTestEngine(t, false, 0, 1_000_000)
	answers := make([]answer, 0, len(questions))
	for _, one := range questions {
		answers = append(answers, answerTo(t, engine, one))
	}
	written, err := json.Marshal(answers)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(os.Getenv("RAMET_ANSWERS"), written, 0o600); err != nil {
		t.Fatal(err)
	}
}

func answerTo(t *testing.T, engine *promql.Engine, one question) answer {
	storage := promqltest.LoadedStorage(t, "load 1m\n"+one.Series)
	defer func() { _ = storage.Close() }()
	at := time.Unix(0, 0).Add(time.Duration(one.Minutes) * time.Minute)
	query, err := engine.NewInstantQuery(t.Context(), storage, nil, one.Expr, at)
	if err != nil {
		return answer{Error: err.Error()}
	}
	defer query.Close()
	result := query.Exec(t.Context())
	if result.Err != nil {
		return answer{Error: result.Err.Error()}
	}
	vector, err := result.Vector()
	if err != nil {
		return answer{Error: err.Error()}
	}
	return answer{Results: len(vector)}
}

