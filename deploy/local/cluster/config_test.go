package cluster

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestNamesThatCannotNameANodeAreRefused(t *testing.T) {
	for _, name := range []string{"", "A", "a_b", "-a", "a-", "1a", "../x", strings.Repeat("a", 21)} {
		if _, err := (Config{Name: name, StateRoot: "/tmp"}).withDefaults(); err == nil {
			t.Errorf("name %q was taken", name)
		}
	}
}

func TestADeepStateFolderIsRefusedBeforeASocketFails(t *testing.T) {
	_, err := (Config{Name: "a", StateRoot: "/" + strings.Repeat("d", 100)}).withDefaults()
	if err == nil || !strings.Contains(err.Error(), "MAGOS_STATE") {
		t.Fatalf("got %v", err)
	}
}

func TestClustersOfOneNameInTwoRootsShareNothingOnTheHost(t *testing.T) {
	first, second := Config{Name: "a", StateRoot: "/x"}, Config{Name: "a", StateRoot: "/y"}
	if first.linkName() == second.linkName() || first.tableName() == second.tableName() || first.cgroupName() == second.cgroupName() {
		t.Fatalf("both have the id %s", first.id())
	}
	if length := len(first.linkName()); length > 15 {
		t.Fatalf("an interface name has at most 15 characters, %s has %d", first.linkName(), length)
	}
}

func TestARecycledProcessIDIsNotTakenForTheNode(t *testing.T) {
	if _, err := os.Stat("/proc/self/stat"); err != nil {
		t.Skip("needs Linux's /proc")
	}
	self, err := identify(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	if !self.alive() {
		t.Fatal("this process should be alive")
	}
	later := self
	later.Start += "0"
	if later.alive() {
		t.Error("a process that started at another time was taken for this one")
	}
	if err := later.end(); err != nil {
		t.Errorf("ending what is gone: %v", err) // Had it been killed, nobody would see this.
	}
	rebooted := self
	rebooted.Boot = "another"
	if rebooted.alive() {
		t.Error("a process of another boot was taken for this one")
	}
}

func TestFaultsEndWithTheLog(t *testing.T) {
	cluster := &Cluster{config: Config{Name: "a", StateRoot: t.TempDir()}}
	path := cluster.config.paths().log("etcd")
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	lines := strings.Repeat("noise\n", 5000) + "the last words\n"
	if err := os.WriteFile(path, []byte(lines), 0o644); err != nil {
		t.Fatal(err)
	}
	err := cluster.fault("etcd", "has ended")
	if !strings.HasPrefix(err.Error(), "etcd has ended") || !strings.HasSuffix(err.Error(), "the last words") {
		t.Fatalf("got %v", err)
	}
	if count := strings.Count(err.Error(), "\n"); count != 15 {
		t.Fatalf("the error quotes %d lines of the log, want 15", count)
	}
}

func TestSettingsOfTheMachineArePutBack(t *testing.T) {
	folder := t.TempDir()
	changed, absent := filepath.Join(folder, "changed"), filepath.Join(folder, "absent")
	set := func(value string) {
		if err := os.WriteFile(changed, []byte(value), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	set("0\n")
	files := []string{changed, absent}
	before, err := readSettings(files)
	if err != nil {
		t.Fatal(err)
	}
	set("10\n")
	foreign := filepath.Join(folder, "foreign")
	before[foreign] = "1"
	if err := writeSettings(files, before); err != nil {
		t.Fatal(err)
	}
	if content, err := os.ReadFile(changed); err != nil || string(content) != "0" {
		t.Errorf("it is %q, %v", content, err)
	}
	for _, file := range []string{absent, foreign} {
		if _, err := os.Stat(file); err == nil {
			t.Errorf("%s was written", file)
		}
	}
}
