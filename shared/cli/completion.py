"""`chot completion`: the script that teaches a shell our commands, options, states and kinds."""

import click
from click.shell_completion import get_completion_class

SHELLS = ("bash", "zsh", "fish")
VARIABLE = "_CHOT_COMPLETE"


@click.command()
@click.argument("shell", type=click.Choice(SHELLS))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print the completion script of a shell; kinds and queues come from the api meanwhile.

    \b
    eval "$(chot completion bash)"                              in ~/.bashrc
    eval "$(chot completion zsh)"                               in ~/.zshrc
    chot completion fish > ~/.config/fish/completions/chot.fish
    """  # noqa: D301 - click's mark for a paragraph kept as it is
    made = get_completion_class(shell)
    assert made is not None, "click knows each of these shells"
    click.echo(made(context.find_root().command, {}, "chot", VARIABLE).source())
