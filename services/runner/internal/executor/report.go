package executor

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"unicode/utf8"

	"magosproject.io/services/runner/internal/runspec"
)

// messageLimit bounds a termination message that is not a Record, in bytes; the kubelet cuts at 4,096.
const messageLimit = 2000

// failedRecord is the Record of a plan that err ended.
func failedRecord(in runspec.Instructions, err error) runspec.Record {
	record := runspec.Record{
		Version: runspec.Version, RunID: in.RunID, Outcome: runspec.OutcomeFailed,
		Reason: reasonPlanFailed, Message: err.Error(),
	}
	var f *failure
	if errors.As(err, &f) {
		record.Reason = f.reason
	}
	return record
}

// renderRecord writes the record in MaxRecordBytes at most, by cutting the list of what drifted and then the message.
func renderRecord(record runspec.Record) ([]byte, error) {
	full := record.Message
	for limit := len(full); ; {
		record.Message = shorten(full, limit)
		data, err := json.Marshal(record)
		if err != nil {
			return nil, fmt.Errorf("writing the run's record: %w", err)
		}
		switch {
		case len(data) <= runspec.MaxRecordBytes:
			return data, nil
		case len(record.Drifted) > 0:
			record.Drifted = record.Drifted[:len(record.Drifted)-1]
		case limit == 0:
			return nil, fmt.Errorf("writing the run's record: %d bytes without a message", len(data))
		default:
			limit = limit * 9 / 10
		}
	}
}

// shorten keeps the beginning of text, which says what happened.
func shorten(text string, limit int) string {
	text = strings.ToValidUTF8(text, "?")
	if len(text) <= limit {
		return text
	}
	const mark = "…"
	cut := max(0, limit-len(mark))
	for cut > 0 && !utf8.RuneStart(text[cut]) {
		cut--
	}
	return text[:cut] + mark
}

func writeTermination(path string, message []byte) error {
	if err := os.WriteFile(path, message, 0o640); err != nil {
		return fmt.Errorf("leaving the termination message: %w", err)
	}
	return nil
}
