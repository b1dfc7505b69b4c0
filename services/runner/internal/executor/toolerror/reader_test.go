package toolerror

import (
	"fmt"
	"strings"
	"testing"
	"testing/iotest"
)

// Both tools, as they print with -no-color; the last as Terraform prints where it assumes a terminal.
const (
	tofuLocked = `data.external.x: Reading...

Error: Error acquiring the state lock

Error message: resource temporarily unavailable
Lock Info:
  ID:        2c9a8f6e-0f6c-3b43-8d4e-4b7c0a5f7a11
  Path:      /state/terraform.tfstate
  Operation: OperationTypeApply
  Who:       bob@laptop
  Version:   1.12.6
  Created:   2026-11-30 21:04:05.123456789 +0000 UTC
  Info:      


OpenTofu acquires a state lock to protect the state from being written
by multiple users at the same time. Please resolve the issue above and try
again. For most commands, you can disable locking with the "-lock=false"
flag, but this is not recommended.
`
	terraformBoxed = "╷\n│ Error: Error acquiring the state lock\n│ \n│ Error message: HTTP remote state already locked:\n│ ID=77\n│ Lock Info:\n" +
		"│   ID:        77\n│   Path:      \n│   Operation: OperationTypePlan\n│   Who:       ci@runner\n│   Version:   1.11.4\n│   Created:   2026-11-30 21:04:05 +0000 UTC\n│   Info:      \n╵\n"
	stalePlan = "\nError: Saved plan is stale\n\nThe given plan file can no longer be applied because the state was changed by\nanother operation after the plan was created.\n"
	lineage   = "\nError: Saved plan does not match the given state\n\nThe given plan file can not be applied because it was created from a\ndifferent state lineage.\n"
	denied    = "\nError: Error acquiring the state lock\n\nError message: operation error DynamoDB: PutItem, StatusCode: 400, AccessDeniedException: not\nauthorized to perform: dynamodb:PutItem\n"
	unread    = "\nError: Error acquiring the state lock\n\nError message: HTTP remote state already locked, failed to unmarshal body\n"
	fullDisk  = "\nError: Failed to install provider\n\nError while installing hashicorp/aws v5.0.0: write\n/workspace-data/plugin-cache/x: no space left on\ndevice\n"
)

func read(t *testing.T, text string) *Reader {
	t.Helper()
	r := &Reader{}
	if _, err := r.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	return r
}

func TestKnownFailuresAreRecognised(t *testing.T) {
	for name, c := range map[string]struct {
		text string
		want Kind
	}{
		"tofu's lock": {tofuLocked, StateLocked}, "terraform's lock": {terraformBoxed, StateLocked}, "a lock that nobody describes": {unread, StateLocked},
		"no right to lock": {denied, Other}, "stale": {stalePlan, StalePlan}, "another lineage": {lineage, StalePlan},
		"full": {fullDisk, StorageFull}, "git's full": {"fatal: write error: No space left on device\n", StorageFull},
		"other": {"\nError: Invalid reference\n", Other}, "nothing": {"", Other},
		"words before the error": {"x (local-exec): Error: Saved plan is stale\n\nError: local-exec provisioner error\n", Other},
		"in its own log":         {"2026-11-30T21:04:05.123Z [ERROR] vertex: Saved plan is stale\n\nError: no\n", Other},
	} {
		if got := read(t, c.text).Kind(); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
		// However the stream is cut.
		r := &Reader{}
		for i := range len(c.text) {
			_, _ = r.Write([]byte(c.text[i : i+1]))
		}
		if got := r.Kind(); got != c.want {
			t.Errorf("%s, byte by byte: %q, want %q", name, got, c.want)
		}
	}
}

func TestALockIsDescribedWithWhatToDo(t *testing.T) {
	lock := read(t, tofuLocked).Lock()
	want := Lock{ID: "2c9a8f6e-0f6c-3b43-8d4e-4b7c0a5f7a11", Path: "/state/terraform.tfstate", Operation: "Apply", Who: "bob@laptop", Created: "2026-11-30T21:04:05Z"}
	if lock != want {
		t.Errorf("got %+v, want %+v", lock, want)
	}
	said := lock.Describe("tofu")
	for _, part := range []string{"by bob@laptop", "since 2026-11-30T21:04:05Z", "for apply", "path /state/terraform.tfstate", "`tofu force-unlock " + want.ID + "`"} {
		if !strings.Contains(said, part) {
			t.Errorf("%q lacks %q", said, part)
		}
	}
	if boxed := read(t, terraformBoxed).Lock(); boxed.ID != "77" || boxed.Who != "ci@runner" || boxed.Path != "" {
		t.Errorf("the boxed lock is %+v", boxed)
	}
	if said := read(t, unread).Lock().Describe("terraform"); !strings.Contains(said, "backend's own tools") || strings.Contains(said, " by ") {
		t.Errorf("an unknown holder: %q", said)
	}
	long := Lock{Who: strings.Repeat("ü", 5000), Path: strings.Repeat("p", 5000), ID: strings.Repeat("i", 5000), Created: strings.Repeat("c", 5000)}
	if said := long.Describe("tofu"); len(said) > 1500 {
		t.Errorf("%d bytes", len(said))
	}
}

func TestWordsAreTheFirstErrorsBounded(t *testing.T) {
	several := "Refreshing...\n" + strings.Repeat("\nError: no such zone\n\n  on main.tf line 3:\n   3: zone = var.zone\n", 200)
	words := read(t, several).Words()
	if !strings.HasPrefix(words, "Error: no such zone\n") || !strings.Contains(words, "main.tf line 3") || strings.Contains(words, "Refreshing") {
		t.Errorf("%q", words)
	}
	if len(words) > maxWords+40 || !strings.HasSuffix(words, "more errors)") {
		t.Errorf("%d bytes: %q", len(words), words)
	}
	if words := read(t, "one\ntwo\nthree").Words(); words != "one\ntwo\nthree" {
		t.Errorf("without an error: %q", words)
	}
	if words := read(t, "Error: "+strings.Repeat("x", 100_000)+"\n").Words(); len(words) > maxWords || !strings.HasPrefix(words, "Error: xxx") {
		t.Errorf("one long line: %d bytes, %q", len(words), words)
	}
	if words := read(t, "\nError: \xff\xfe broken\n").Words(); words != strings.ToValidUTF8(words, "") || !strings.Contains(words, "broken") {
		t.Errorf("not UTF-8: %q", words)
	}
}

// What the tool logs with TF_LOG comes in the same stream, and says nothing of the failure.
func TestTheToolsOwnLogIsLeftOut(t *testing.T) {
	text := "2026-11-30T21:04:05.123Z [TRACE] start\n\nError: no such zone\n2026-11-30T21:04:06.123+0100 [DEBUG] provider: plugin exited\n\n  on main.tf line 3\n"
	if words := read(t, text).Words(); words != "Error: no such zone\n  on main.tf line 3" {
		t.Errorf("%q", words)
	}
	if words := read(t, "last\n2026-11-30T21:04:05.123Z [TRACE] "+strings.Repeat("x", 5000)+"\n").Words(); words != "last" {
		t.Errorf("%q", words)
	}
}

func TestMemoryIsBounded(t *testing.T) {
	r := &Reader{}
	source := iotest.OneByteReader(strings.NewReader(strings.Repeat("y", 3000)))
	buffer := make([]byte, 7)
	for {
		n, err := source.Read(buffer)
		_, _ = r.Write(buffer[:n])
		if err != nil {
			break
		}
	}
	for i := range 100_000 {
		_, _ = fmt.Fprintf(r, "line %d\n\nError: %d\n", i, i)
	}
	if cap(r.line) > 2*maxLine || r.kept > maxErrors+maxLine || r.tailSize > maxTail+maxLine {
		t.Errorf("line %d, errors %d, tail %d", cap(r.line), r.kept, r.tailSize)
	}
}
