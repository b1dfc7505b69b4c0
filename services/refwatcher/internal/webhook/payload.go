package webhook

import (
	"encoding/json"
	"fmt"

	"magosproject.io/internal/refs"
	"magosproject.io/services/refwatcher/internal/schedule"
)

// payload has the fields in which the hosting services say where the repository is. No two of them use one name for different types.
type payload struct {
	Repository repository `json:"repository"`
	// Project is GitLab's.
	Project repository `json:"project"`
}

type repository struct {
	// GitHub, Gitea, Forgejo.
	CloneURL string `json:"clone_url"`
	SSHURL   string `json:"ssh_url"`
	GitURL   string `json:"git_url"`
	HTMLURL  string `json:"html_url"`
	// GitLab.
	GitHTTPURL string `json:"git_http_url"`
	GitSSHURL  string `json:"git_ssh_url"`
	WebURL     string `json:"web_url"`
	Homepage   string `json:"homepage"`
	// Bitbucket: Cloud has the page alone, Data Center the clone URLs.
	Links struct {
		HTML  link   `json:"html"`
		Clone []link `json:"clone"`
	} `json:"links"`
}

type link struct {
	Href string `json:"href"`
}

// urlsOf reads where the repository of an event is: one URL for each place that there is. The page of a repository counts: it lies where the repository is
// cloned from, without .git.
func urlsOf(body []byte) ([]refs.URL, error) {
	var p payload
	if err := json.Unmarshal(body, &p); err != nil {
		return nil, fmt.Errorf("reading the payload: %w", err)
	}
	var found []refs.URL
	seen := map[string]struct{}{}
	for _, r := range []repository{p.Repository, p.Project} {
		spellings := []string{r.CloneURL, r.SSHURL, r.GitURL, r.GitHTTPURL, r.GitSSHURL, r.HTMLURL, r.WebURL, r.Homepage, r.Links.HTML.Href}
		for _, l := range r.Links.Clone {
			spellings = append(spellings, l.Href)
		}
		for _, spelling := range spellings {
			url, err := refs.ParseURL(spelling)
			if err != nil {
				continue
			}
			if _, again := seen[schedule.Place(url)]; !again && len(found) < maxPlaces {
				seen[schedule.Place(url)] = struct{}{}
				found = append(found, url)
			}
		}
	}
	return found, nil
}

// maxPlaces bounds what one payload can make us look for; real ones name two or three.
const maxPlaces = 8
