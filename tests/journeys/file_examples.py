"""Steps of docs/examples.md about files that clients send."""

from tests.journeys.example_step import AUTH, Step

FILE_STEPS: tuple[Step, ...] = (
    Step(
        route="POST /v1/files",
        says="Send a file, for a job such as `import.items` to read.",
        command=(
            f'curl "$CHOT_API_URL/v1/files?company=SAMPLE&name=items.csv" {AUTH} \\\n'
            '     -H "Content-Type: text/csv" \\\n'
            "     -d 'code,name,base_uom\nNEW-1,Trà sen,hộp\n'"
        ),
        captures={"SENT": ["id"]},
    ),
    Step(
        route="DELETE /v1/files/{file_id}",
        says="It goes by itself some days later, or now.",
        command=f'curl -X DELETE "$CHOT_API_URL/v1/files/$SENT" {AUTH}',
    ),
)
