package demo

import (
	"bytes"
	"context"
	"os"
	"regexp"
	"strings"
	"testing"
)

// The demo tells what happened and verifies its own bill; it leaves no folder behind.
func TestDemoVerifiesItsBillAndLeavesNothing(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	t.Setenv("OPENAI_API_KEY", "sk-must-not-be-read")
	var out bytes.Buffer
	if err := run(context.Background(), &out, "test", 120, true); err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
	told := out.String()
	if !regexp.MustCompile(`(?m)^bill verified: live = replayed \([1-9][0-9]* requests, \$0\.[0-9]+\)$`).MatchString(told) {
		t.Errorf("no verified bill:\n%s", told)
	}
	for _, word := range []string{"curl http://127.0.0.1:", "sk-pen-", "failed over", "waited for a slot", "API_KEY_MODEL_NOT_ALLOWED", "alice-laptop", "gpt-demo"} {
		if !strings.Contains(told, word) {
			t.Errorf("the report lacks %q:\n%s", word, told)
		}
	}
	if strings.Contains(told, "must-not-be-read") {
		t.Error("the demo reads the environment's keys")
	}
	left, err := os.ReadDir(os.Getenv("TMPDIR"))
	if err != nil || len(left) > 0 {
		t.Errorf("left behind: %v %v", left, err)
	}
}

func TestDemoThatIsEndedSaysOnlyThat(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	ctx, end := context.WithCancel(context.Background())
	end()
	c := Command("test")
	c.SetOut(new(bytes.Buffer))
	c.SetArgs(nil)
	c.SilenceUsage, c.SilenceErrors = true, true
	if err := c.ExecuteContext(ctx); err == nil || err.Error() != "ended before its report" {
		t.Error(err)
	}
	left, err := os.ReadDir(os.Getenv("TMPDIR"))
	if err != nil || len(left) > 0 {
		t.Errorf("left behind: %v %v", left, err)
	}
}
