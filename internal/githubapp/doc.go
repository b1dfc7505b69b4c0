// Package githubapp gets the tokens with which a GitHub App reads repositories: it signs a JWT with the key of the app and exchanges it for a token
// of an installation, as https://docs.github.com/apps describes. The refwatcher and the pods of runs use it.
package githubapp
