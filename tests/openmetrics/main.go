// Reads OpenMetrics text from standard input with the parser that Prometheus scrapes with. Prints a line of JSON for each
// sample: its labels, among them its name as `__name__`, and its value. Exit code 65 if Prometheus refuses the text.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/textparse"
)

type sample struct {
	Labels map[string]string `json:"labels"`
	Value  string            `json:"value"`
}

func read(text []byte, out *json.Encoder) error {
	parser := textparse.NewOpenMetricsParser(text, labels.NewSymbolTable())
	for {
		entry, err := parser.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if entry != textparse.EntrySeries {
			continue
		}
		var found labels.Labels
		parser.Labels(&found)
		if !found.IsValid(model.LegacyValidation) {
			return fmt.Errorf("labels %s", found)
		}
		_, _, value := parser.Series()
		if err := out.Encode(sample{found.Map(), strconv.FormatFloat(value, 'g', -1, 64)}); err != nil {
			return err
		}
	}
}

func main() {
	text, err := io.ReadAll(os.Stdin)
	if err == nil {
		err = read(text, json.NewEncoder(os.Stdout))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(65)
	}
}
