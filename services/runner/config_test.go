package main

import (
	"flag"
	"slices"
	"strings"
	"testing"
)

func TestDefaultsNeedOnlyAnImage(t *testing.T) {
	c := NewDefaultConfig()
	if err := c.Validate(); err == nil || !strings.Contains(err.Error(), "--run-image") {
		t.Errorf("without an image: %v", err)
	}
	c.RunImage = "x"
	if err := c.Validate(); err != nil {
		t.Error(err)
	}
}

func TestValidateNamesEveryFlagThatIsWrong(t *testing.T) {
	cases := map[string][]string{
		"--run-image-pull-policy": {"Sometimes"},
		"--tool-mirror":           {"ftp://x", "mirror", "https://"},
		"--provider-mirror":       {"./x"},
		"--provider-mirror-only":  {"true"},
		"--storage-size":          {"much", "0", "-1Gi"},
		"--plan-grace":            {"0s", "1500ms"},
		"--apply-grace":           {"48h"},
		"--node-loss-grace":       {"1s"},
		"--keeper-resources":      {"cpu=1", "requests.cpu", "limits.=1", "other.cpu=1"},
		"--tool-resources":        {"requests.cpu=x", "requests.memory=2Gi,limits.memory=1Gi"},
		"--show-resources":        {"limits.memory=-1"},
		"--workers":               {"0"},
		"--git-schemes":           {"", "https,file", "ext"},
		"--git-helpers":           {"ext", "s3,fd", "file", "https", "S3", "../x", "-x"},
	}
	for name, values := range cases {
		for _, value := range values {
			c := NewDefaultConfig()
			flags := flag.NewFlagSet("test", flag.ContinueOnError)
			c.BindFlags(flags)
			if err := flags.Parse([]string{"--run-image=x", name + "=" + value}); err != nil {
				t.Errorf("%s=%s: %v", name, value, err)
				continue
			}
			if err := c.Validate(); err == nil || !strings.Contains(err.Error(), name) {
				t.Errorf("%s=%s: %v", name, value, err)
			}
		}
	}
}

func TestWhatGitMayUseReachesTheSettings(t *testing.T) {
	c := NewDefaultConfig()
	c.RunImage, c.GitSchemes, c.GitHelpers = "x", "https, ssh", "s3,codecommit"
	s, err := c.Settings()
	if err != nil || !slices.Equal(s.GitSchemes, []string{"https", "ssh"}) || !slices.Equal(s.GitHelpers, []string{"s3", "codecommit"}) {
		t.Errorf("schemes %q, helpers %q, %v", s.GitSchemes, s.GitHelpers, err)
	}
}

func TestTheLimitToTheMirrorReachesTheSettings(t *testing.T) {
	c := NewDefaultConfig()
	c.RunImage, c.ProviderMirror, c.ProviderMirrorOnly = "x", "https://mirror.example.com", true
	if s, err := c.Settings(); err != nil || !s.ProviderMirrorOnly {
		t.Errorf("%v, %v", s.ProviderMirrorOnly, err)
	}
}

func TestResourcesReachTheSettings(t *testing.T) {
	c := NewDefaultConfig()
	c.RunImage, c.ToolResources = "x", "requests.cpu=250m, limits.memory=3Gi"
	s, err := c.Settings()
	if err != nil {
		t.Fatal(err)
	}
	if s.Tool.Requests.Cpu().String() != "250m" || s.Tool.Limits.Memory().String() != "3Gi" || len(s.Tool.Requests) != 1 {
		t.Errorf("resources: %+v", s.Tool)
	}
}
